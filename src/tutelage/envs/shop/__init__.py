"""A web shop in text: catalogue, search, pages, goals and score. `ShopEnv` plays one task."""
