"""Nouns and colours by which the score compares titles and options, instead of a tagger.

The nouns are those of goods on sale, with some materials and parts. A title whose words are all unknown has no nouns, and
then counts as neither like nor unlike (`score.title_score`).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from tutelage.envs.shop.vocabulary import DEPARTMENTS, KINDS

_WORD = re.compile(r"[a-z0-9]+")


def words_of(text: str) -> list[str]:
    """Runs of letters and digits, in lower case. Example: ``Slim-fit Jacket`` has slim, fit, jacket."""
    return _WORD.findall(text.lower())


COLORS: Final = tuple(
    words_of("""amber aqua beige black blue bronze brown burgundy camel champagne charcoal cherry chocolate coffee copper coral
    cream crimson cyan denim emerald fuchsia gold graphite gray green grey indigo ivory khaki lavender lemon lilac lime
    magenta maroon mauve mint mocha multicolor mustard natural navy nude olive orange peach pearl pink plum purple
    rainbow red rose rust salmon sand sapphire silver slate tan taupe teal turquoise violet walnut white wine
    yellow""")
)
"""In alphabetical order, which matters: the first one contained in a text stands for it."""

_NOUNS: Final = frozenset(
    words_of("""
    adapter air alarm album apron arm armchair art
    baby backpack bag ball balm band bar barrel basin basket basketball bath bathroom beach bead bean beanie bed
    bedding bedroom bedspread beef belt bench bicycle bike bikini bin binoculars bird biscuit blade blanket blazer blend
    blender blind blouse board boat body bolt book bookcase bookshelf boot bottle bow bowl box boy boyshort bra bracelet
    bracket bread briefcase brush bubble bucket buckle bulb butter button
    cabinet cable cake calendar camera camisole camp can candle candy canvas cap cape car card cardigan care carpet
    carrier cart case casserole cat cd ceiling cereal chain chair chandelier charger charm cheese chest chew chicken
    child chip chocolate christmas clamp clasp cleaner cleanser clip clipper clock clog cloth clothes clothing coaster coat
    cocoa coconut coffee collar cologne color comb comforter computer concealer conditioner console container controller
    cookie cooler cord corn corset costume cotton couch country cover cracker cream crew crown cup cupcake curl curler
    curtain cushion
    date decal deck decor decoration denim deodorant desk desktop dessert detangler device dinner diffuser dish dispenser
    display dock dog doll door dough drawer dress dresser drink driver drone dryer dvd dye
    ear earbud earphone earring edge egg electronics elephant energy engine envelope extender extension eye eyebrow
    eyelash eyeliner eyeshadow
    fabric face fan farmhouse fashion faucet feather fiber file film filter finger fish flag flannel flash flats flavor
    floor flour flower foam foil food foot football footrest footwear fork foundation fragrance frame freezer fridge
    fruit furniture futon
    game garden garlic gate gel gift ginger girl glass glasses glitter glove glue gold golf gown grain granola grill grip
    grocery guard guitar gum
    hair hairbrush hairpin hammock hand handbag handle hanger hardware hat head headband headboard headphone headset
    heel hem herb hiking holder holiday home honey hood hoodie hook hose house humidifier
    ice ingredient ink iron island
    jacket jam jar jaw jeans jerky jersey jewel jewelry joint juice jumpsuit
    kettle key keyboard keychain kid king kit kitchen knife knit knob
    lace ladder lamp lantern laptop lash laundry lead leather leg legging lens lid light lighter lighting line linen
    liner lingerie lip lipstick liquid living loafer lock loft loofah lotion lounge loveseat luggage lunch
    machine magnet makeup man maple mascara mask massage massager mat material mattress meal meat memory men microphone
    microwave milk mirror mixer module moisturizer monitor mount mouse mouth mouthwash mug mule muffin mural music
    nail neck necklace needle network night nightgown nightstand nightwear noodle nose nut nutrition nylon
    oak oat office oil ointment organizer ottoman outfit outlet oven
    pack package pad paint pair pajamas pan panel pant pants panty pantry paper party pasta pastry patch pattern
    peanut pen pencil pendant pepper perfume phone photo piano picture pie pillow pillowcase pin pine pipe pizza
    plant plate platform player plug pocket polish polo polyester ponytail popcorn port portrait pot potato pouch powder
    power powerbank pretzel primer print printer processor projector protein protector pullover pump purse puzzle
    quilt
    rack radio rail rain razor receiver recliner recorder refrigerator remote remover repair rice ring robe rod roller
    romper room rope rose router rubber rug ruler runner
    saddle salad salmon salt sandal sandwich satin sauce saucer scalp scanner scarf scent scissors screen screw scrub sculpture
    seasoning seat seed serum set shade shampoo shawl sheet shelf shelving shell shirt shoe shop short shorts shoulder
    shower sideboard silicone silk silver sink skin skirt sleep sleeper sleepwear sleeve slipper smartphone smartwatch snack
    sneaker snow soap soccer sock socket soda sofa software soup speaker spice spike spoon sport spray spring stand
    station steel stem step stereo sticker stick stone stool storage stove strainer strap straw string strip stud
    stylus subwoofer sugar suit suitcase summer sunglasses sunscreen supplement surface sweater sweatpants sweatshirt swimsuit
    swimwear switch syrup system
    table tablet tank tapestry tea tee teeth telescope television tent theater thermos thong thread throw tie tights
    tile timer tin tincture tire tissue toast toe toilet toner tongue tool tooth toothbrush toothpaste top torch tote towel
    toy track tray treatment treat tree tripod trouser trunk truck tube tuna tunic turkey tuxedo tv tweezers
    umbrella underwear uniform unit
    valance vanity vase vegetable vest video vinegar vinyl vitamin
    waist waistband walkie wall wallet wallpaper wardrobe washcloth watch water wax wedding wedge wheat wheel whip wick
    wig window wine winter wire woman women wood wool workout wrap wrench wrist wristband
    yarn yoga yogurt
    zipper
    """)
) | {kind.noun for kind in KINDS} | {
    word for words in DEPARTMENTS.values() for material in words.materials for word in material.split()
}  # fmt: skip


@lru_cache(maxsize=65536)
def is_noun(word: str) -> bool:
    """Whether a lower-case word, or what it is the plural of, is listed. Example: boxes, candies and chairs are."""
    singulars = [word]
    if word.endswith("s"):
        singulars.append(word[:-1])
    if word.endswith("es"):
        singulars.append(word[:-2])
    if word.endswith("ies"):
        singulars.append(word[:-3] + "y")
    return any(singular in _NOUNS for singular in singulars)


def nouns_of(text: str) -> list[str]:
    """The nouns of a text as they stand there, repeated ones repeated."""
    return [word for word in words_of(text) if is_noun(word)]


def plain_color(text: str) -> str:
    """The first listed colour that is contained in a text, else the text. Contained in letters, not in words.

    Example: ``navy stripes`` is navy, ``standard`` is tan.
    """
    return next((color for color in COLORS if color in text), text)
