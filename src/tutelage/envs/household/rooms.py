"""What rooms are made of: receptacles, objects, what fits where. Tables only; `generator` draws from them.

Types are lower case as in `game`. The facts about types (openable, pickupable, `CAN_CONTAIN`) are those of the ALFWorld
games; how many of each a room has and how often a thing is there follow the counts of its released games.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ROOMS: Final = ("kitchen", "bedroom", "living", "bathroom")
"""The four kinds of room."""

SIZES: Final = ("small", "real")
"""`small`: about 12 receptacles and 11 objects. `real`: as many as in the released games."""

OPENABLE: Final = frozenset({"cabinet", "drawer", "fridge", "microwave", "safe"})
"""Receptacle types with a door or a drawer. Single cabinets and drawers of real games have none."""

APPLIANCE: Final = {
    "pick_clean_then_place_in_recep": "sinkbasin",
    "pick_heat_then_place_in_recep": "microwave",
    "pick_cool_then_place_in_recep": "fridge",
}
"""Task type -> the receptacle type that does what it asks for."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FIXED: Final = _words("desklamp houseplant television")
"""Object types that stand somewhere and cannot be picked up."""

PROPERTIES: Final = {
    "cleanable": _words(
        "apple bowl butterknife cloth cup dishsponge egg fork kettle knife ladle lettuce mug pan plate pot potato "
        "soapbar spatula spoon tomato"
    ),
    "heatable": _words("apple bread cup egg mug plate potato tomato"),
    "coolable": _words("apple bowl bread cup egg lettuce mug pan plate pot potato tomato winebottle"),
    "sliceable": _words("apple bread egg lettuce potato tomato"),
    "toggleable": _words("desklamp"),
    "is_receptacle_object": _words("bowl box cup mug pan plate pot"),
}
"""Field of `HouseholdObject` -> the object types that have it. `pickupable` is all that is not `FIXED`."""

_SEAT = _words("book box cellphone creditcard keychain laptop newspaper pillow remotecontrol")

CAN_CONTAIN: Final = {
    "armchair": _SEAT,
    "sofa": _SEAT,
    "bathtubbasin": _words("cloth dishsponge handtowel soapbar"),
    "bed": _words("baseballbat basketball book cellphone laptop pillow tennisracket"),
    "cabinet": _words(
        "book bowl box candle cd cloth cup dishsponge glassbottle handtowel kettle ladle mug newspaper pan "
        "peppershaker plate plunger pot saltshaker soapbar soapbottle spraybottle tissuebox toiletpaper vase "
        "winebottle"
    ),
    "cart": _words("candle cloth dishsponge handtowel plunger soapbar soapbottle spraybottle tissuebox toiletpaper"),
    "coffeemachine": _words("mug"),
    "coffeetable": _words(
        "book box candle cellphone creditcard keychain laptop newspaper pen pencil plate remotecontrol statue "
        "tissuebox vase watch wateringcan"
    ),
    "countertop": _words(
        "apple book bowl bread butterknife candle cellphone cloth creditcard cup dishsponge egg fork glassbottle "
        "handtowel kettle knife ladle lettuce mug pan peppershaker plate pot potato saltshaker soapbar soapbottle "
        "spatula spoon spraybottle statue tissuebox toiletpaper tomato vase winebottle"
    ),
    "desk": _words(
        "alarmclock basketball book bowl box cd cellphone cloth creditcard keychain laptop mug pen pencil "
        "tennisracket vase"
    ),
    "diningtable": _words(
        "alarmclock apple book bowl box bread butterknife candle cd cellphone creditcard cup dishsponge egg fork "
        "glassbottle kettle keychain knife ladle laptop lettuce mug newspaper pan pen pencil peppershaker plate "
        "pot potato remotecontrol saltshaker soapbottle spatula spoon spraybottle statue tissuebox tomato vase "
        "watch wateringcan winebottle"
    ),
    "drawer": _words(
        "book butterknife candle cd cellphone cloth creditcard dishsponge fork handtowel keychain knife ladle "
        "newspaper pen pencil peppershaker remotecontrol saltshaker soapbar soapbottle spatula spoon spraybottle "
        "tissuebox toiletpaper watch wateringcan"
    ),
    "dresser": _words(
        "alarmclock basketball book bowl box cd cellphone cloth creditcard keychain laptop mug newspaper pen "
        "pencil plate remotecontrol statue tennisracket tissuebox vase watch wateringcan"
    ),
    "fridge": _words("apple bowl bread cup egg glassbottle lettuce mug pan plate pot potato tomato winebottle"),
    "garbagecan": _words(
        "apple bread cd cloth dishsponge egg handtowel lettuce newspaper pen pencil potato soapbar soapbottle "
        "spraybottle tissuebox toiletpaper tomato winebottle"
    ),
    "handtowelholder": _words("handtowel"),
    "laundryhamper": _words("cloth"),
    "microwave": _words("apple bowl bread cup egg glassbottle mug plate potato tomato"),
    "safe": _words("cd cellphone creditcard keychain statue vase watch"),
    "shelf": _words(
        "alarmclock book bowl box candle cd cellphone cloth creditcard cup dishsponge glassbottle handtowel "
        "kettle keychain mug newspaper pen pencil peppershaker plate pot remotecontrol saltshaker soapbar "
        "soapbottle spraybottle statue tissuebox toiletpaper vase watch wateringcan winebottle"
    ),
    "sidetable": _words(
        "alarmclock apple baseballbat basketball book bowl box bread butterknife candle cd cellphone cloth "
        "creditcard cup dishsponge egg fork keychain knife laptop lettuce mug newspaper pan pen pencil "
        "peppershaker plate pot potato remotecontrol saltshaker soapbottle spatula spoon statue tennisracket "
        "tissuebox tomato vase watch wateringcan"
    ),
    "sinkbasin": _words(
        "apple bowl butterknife cloth cup dishsponge egg fork glassbottle handtowel kettle knife ladle lettuce "
        "mug pan plate pot potato soapbar spatula spoon tomato"
    ),
    "stoveburner": _words("kettle pan pot"),
    "toaster": frozenset[str](),
    "toilet": _words("candle cloth dishsponge handtowel soapbar soapbottle spraybottle tissuebox toiletpaper"),
    "toiletpaperhanger": _words("toiletpaper"),
    "towelholder": _words("towel"),
}
"""Receptacle type -> the object types that `move` accepts there."""

RECEPTACLE_TYPES: Final = tuple(sorted(CAN_CONTAIN))
"""Every receptacle type of a generated room."""

STANDS_ON: Final = {
    "desklamp": _words("desk dresser shelf sidetable"),
    "houseplant": _words("coffeetable countertop diningtable sidetable"),
    "television": _words("coffeetable dresser sidetable"),
}
"""Where the things that cannot be picked up stand; always in the open."""

CROWDING: Final = {
    "armchair": 2.0, "bathtubbasin": 1.0, "bed": 4.0, "cabinet": 1.2, "cart": 3.0, "coffeemachine": 2.0,
    "coffeetable": 5.0, "countertop": 6.0, "desk": 4.5, "diningtable": 7.0, "drawer": 0.9, "dresser": 5.0,
    "fridge": 8.0, "garbagecan": 1.0, "handtowelholder": 5.0, "laundryhamper": 0.2, "microwave": 1.0, "safe": 1.8,
    "shelf": 0.8, "sidetable": 2.5, "sinkbasin": 3.0, "sofa": 2.5, "stoveburner": 3.0, "toaster": 0.0, "toilet": 2.2,
    "toiletpaperhanger": 0.8, "towelholder": 1.0,
}  # fmt: skip
"""Receptacle type -> how readily an object that fits lies there in real games; relative."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Room:
    """One kind of room. Counts and shares are drawn evenly from the tuples, so a repeated value is a likelier one."""

    receptacles: dict[str, dict[str, tuple[int, ...]]]
    """Size -> receptacle type -> how many there may be."""
    objects: dict[str, float]
    """Object type -> how often it is in a room of real size."""
    copies: tuple[int, ...]
    """How many of an object type there are, in a room of real size that has it."""
    shared: tuple[tuple[str, str, float], ...]
    """(type, type, probability) of two receptacles standing at one location."""
    doorless: dict[str, float]
    """Receptacle type -> the part of them that has no door, in rooms of real size."""


KITCHEN: Final = Room(
    receptacles={
        "small": {
            "cabinet": (1, 2, 2, 3), "coffeemachine": (0, 1), "countertop": (1, 1, 2), "diningtable": (0, 0, 1),
            "drawer": (1, 2, 3), "fridge": (1,), "garbagecan": (1,), "microwave": (1,), "shelf": (0, 0, 1, 2),
            "sinkbasin": (1,), "stoveburner": (0, 1, 2, 2),
        },
        "real": {
            "cabinet": (4, 6, 6, 6, 6, 6, 6, 7, 8, 9, 11, 13, 19), "coffeemachine": (1,),
            "countertop": (1, 2, 2, 3, 3, 3, 3, 4), "diningtable": (0, 0, 0, 0, 0, 0, 0, 0, 1, 2),
            "drawer": (0, 1, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4, 4, 4, 6, 9, 13, 27), "fridge": (1,),
            "garbagecan": (1,), "microwave": (1,), "shelf": (0, 2, 3, 3, 3, 3),
            "sidetable": (0, 0, 0, 0, 0, 0, 0, 0, 0, 1), "sinkbasin": (1,),
            "stoveburner": (4, 4, 4, 4, 4, 4, 4, 4, 4, 6), "toaster": (1,),
        },
    },
    objects={
        "apple": 1.0, "book": 0.05, "bowl": 1.0, "bread": 1.0, "butterknife": 1.0, "cellphone": 0.8,
        "creditcard": 0.8, "cup": 1.0, "dishsponge": 1.0, "egg": 1.0, "fork": 1.0, "glassbottle": 0.8,
        "houseplant": 0.8, "kettle": 0.15, "knife": 1.0, "ladle": 0.15, "lettuce": 1.0, "mug": 1.0, "pan": 1.0,
        "peppershaker": 1.0, "plate": 1.0, "pot": 1.0, "potato": 1.0, "saltshaker": 1.0, "soapbottle": 1.0,
        "spatula": 1.0, "spoon": 1.0, "spraybottle": 0.05, "statue": 0.8, "tomato": 1.0, "vase": 0.8,
        "winebottle": 0.15,
    },
    copies=(1, 1, 2, 2, 3, 3),
    shared=(
        ("stoveburner", "stoveburner", 0.95), ("coffeemachine", "countertop", 0.8), ("toaster", "countertop", 0.07),
        ("cabinet", "cabinet", 0.08), ("drawer", "drawer", 0.12),
    ),
    doorless={"cabinet": 0.3, "drawer": 0.04},
)  # fmt: skip

BEDROOM: Final = Room(
    receptacles={
        "small": {
            "armchair": (0, 0, 1), "bed": (1,), "cabinet": (0, 0, 0, 1, 2), "desk": (1, 1, 2), "drawer": (2, 3, 4),
            "dresser": (0, 1), "garbagecan": (1,), "laundryhamper": (0, 1), "safe": (0, 1, 1), "shelf": (0, 1, 2, 3),
            "sidetable": (1, 1, 2),
        },
        "real": {
            "armchair": (0, 0, 0, 0, 0, 0, 0, 0, 0, 1), "bed": (1,), "cabinet": (0, 0, 0, 0, 0, 0, 0, 0, 0, 4),
            "desk": (1, 1, 2, 2, 2), "diningtable": (0, 0, 0, 0, 0, 0, 0, 0, 0, 1),
            "drawer": (2, 4, 5, 6, 6, 6, 6, 6, 7, 11), "dresser": (0, 0, 0, 0, 1), "garbagecan": (1,),
            "laundryhamper": (0, 1, 1, 1, 1), "safe": (0, 1, 1, 1), "shelf": (0, 1, 5, 6, 6, 6, 6, 6, 6, 12),
            "sidetable": (0, 0, 0, 0, 0, 1, 1, 2),
        },
    },
    objects={
        "alarmclock": 1.0, "baseballbat": 0.2, "basketball": 0.2, "book": 1.0, "bowl": 0.8, "box": 0.1, "cd": 1.0,
        "cellphone": 1.0, "cloth": 0.1, "creditcard": 1.0, "desklamp": 0.9, "keychain": 1.0, "laptop": 1.0,
        "mug": 0.8, "pen": 1.0, "pencil": 1.0, "pillow": 1.0, "tennisracket": 0.2, "tissuebox": 0.1, "vase": 0.1,
    },
    copies=(1, 1, 2, 2, 3),
    shared=(
        ("drawer", "drawer", 0.2), ("shelf", "shelf", 0.1), ("drawer", "sidetable", 0.2), ("drawer", "dresser", 0.15),
    ),
    doorless={"drawer": 0.3},
)  # fmt: skip

LIVING: Final = Room(
    receptacles={
        "small": {
            "armchair": (0, 1, 2), "cabinet": (0, 1, 2, 3), "coffeetable": (0, 1, 1), "diningtable": (0, 0, 1),
            "drawer": (1, 2, 3, 4), "dresser": (0, 1), "garbagecan": (1,), "safe": (0, 1), "shelf": (0, 1, 2, 3),
            "sidetable": (1, 1, 2), "sofa": (1,),
        },
        "real": {
            "armchair": (0, 1, 1, 1, 1, 2), "cabinet": (0, 0, 0, 0, 3, 4, 4, 8), "coffeetable": (0, 0, 0, 1, 1, 2),
            "diningtable": (0, 0, 1), "drawer": (0, 4, 4, 4, 5, 5, 5, 5, 7, 12), "dresser": (0, 1, 1, 1),
            "garbagecan": (1,), "safe": (0, 1), "shelf": (0, 0, 0, 1, 2, 6, 12, 12, 12, 13),
            "sidetable": (1, 1, 1, 2, 2, 3), "sofa": (1, 1, 1, 1, 1, 1, 1, 1, 1, 2),
        },
    },
    objects={
        "book": 0.2, "box": 1.0, "candle": 0.1, "cellphone": 0.75, "creditcard": 1.0, "desklamp": 0.3,
        "houseplant": 0.5, "keychain": 1.0, "laptop": 1.0, "newspaper": 0.85, "pen": 0.15, "pencil": 0.15,
        "pillow": 1.0, "plate": 0.25, "remotecontrol": 1.0, "statue": 1.0, "television": 0.35, "tissuebox": 0.75,
        "vase": 0.65, "watch": 0.6, "wateringcan": 0.1,
    },
    copies=(1, 1, 2, 2, 3),
    shared=(
        ("cabinet", "cabinet", 0.15), ("drawer", "drawer", 0.15), ("shelf", "shelf", 0.15),
        ("drawer", "sidetable", 0.2),
    ),
    doorless={},
)  # fmt: skip

BATHROOM: Final = Room(
    receptacles={
        "small": {
            "bathtubbasin": (0, 1), "cabinet": (1, 2, 3, 4), "cart": (0, 0, 1), "countertop": (1, 1, 2),
            "drawer": (0, 1, 2), "garbagecan": (1,), "handtowelholder": (1, 1, 2), "shelf": (0, 0, 1),
            "sinkbasin": (1, 1, 2), "toilet": (1,), "toiletpaperhanger": (1,), "towelholder": (1,),
        },
        "real": {
            "bathtubbasin": (0, 0, 0, 1), "cabinet": (0, 3, 4, 4, 4, 4, 4, 4, 5, 9),
            "cart": (0, 0, 0, 0, 0, 0, 0, 0, 0, 1), "countertop": (1, 1, 1, 1, 1, 1, 1, 2),
            "drawer": (0, 0, 0, 0, 0, 0, 1, 1, 4, 8), "garbagecan": (1,), "handtowelholder": (1, 2, 2, 2),
            "shelf": (0, 0, 0, 0, 0, 0, 0, 0, 0, 1), "sinkbasin": (1, 2, 2, 2), "toilet": (1,),
            "toiletpaperhanger": (1,), "towelholder": (1, 1, 1, 1, 1, 1, 1, 1, 1, 2),
        },
    },
    objects={
        "candle": 1.0, "cloth": 1.0, "dishsponge": 0.15, "handtowel": 1.0, "plunger": 0.2, "soapbar": 1.0,
        "soapbottle": 1.0, "spraybottle": 1.0, "tissuebox": 0.15, "toiletpaper": 1.0, "towel": 1.0,
    },
    copies=(1, 1, 2, 2, 3),
    shared=(
        ("cabinet", "cabinet", 0.15), ("drawer", "drawer", 0.2), ("garbagecan", "toiletpaperhanger", 0.05),
        ("cabinet", "drawer", 0.15),
    ),
    doorless={"drawer": 0.1},
)  # fmt: skip

NUM_RECEPTACLES: Final = {"small": (8, 16), "real": (8, 54)}
"""Size -> the fewest and the most receptacles of a room."""

ROOM_OF_NAME: Final = {"kitchen": KITCHEN, "bedroom": BEDROOM, "living": LIVING, "bathroom": BATHROOM}

OBJECT_TYPES: Final = tuple(sorted({kind for room in ROOM_OF_NAME.values() for kind in room.objects}))
"""Every object type of a generated room."""

ONE_EACH: Final = _words("bread desklamp houseplant laptop pan pot television towel")
"""Object types of which a real room mostly has one."""

TASK_ROOMS: Final = {
    "pick_and_place_simple": {"kitchen": 1.0, "bedroom": 1.0, "living": 1.0, "bathroom": 1.0},
    "look_at_obj_in_light": {"bedroom": 0.7, "living": 0.3},
    "pick_clean_then_place_in_recep": {"kitchen": 0.65, "bathroom": 0.35},
    "pick_heat_then_place_in_recep": {"kitchen": 1.0},
    "pick_cool_then_place_in_recep": {"kitchen": 1.0},
    "pick_two_obj_and_place": {"kitchen": 1.0, "bedroom": 1.0, "living": 1.0, "bathroom": 1.0},
}
"""Task type -> the rooms it is set in, with their relative shares."""
