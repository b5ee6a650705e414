from textkit.cases import camel_case, kebab_case, slug, snake_case, title_case, words_of


def test_words_of_camel_case():
    assert words_of("HttpServer") == ["http", "server"]


def test_words_of_keeps_acronyms_together():
    assert words_of("parseHTML") == ["parse", "html"]


def test_words_of_separators():
    assert words_of("__one--two three_") == ["one", "two", "three"]


def test_words_of_nothing():
    assert words_of("") == []


def test_snake_case():
    assert snake_case("maxRetryCount") == "max_retry_count"


def test_kebab_case():
    assert kebab_case("Max retry_count") == "max-retry-count"


def test_camel_case():
    assert camel_case("max_retry_count") == "maxRetryCount"


def test_camel_case_with_upper_first():
    assert camel_case("max_retry_count", upper_first=True) == "MaxRetryCount"


def test_camel_case_of_nothing():
    assert camel_case("--") == ""


def test_title_case():
    assert title_case("the lord of the rings") == "The Lord of the Rings"


def test_title_case_changes_shouting():
    assert title_case("A TALE") == "A Tale"


def test_title_case_with_own_small_words():
    assert title_case("to be or not", small=("or",)) == "To Be or Not"


def test_slug():
    assert slug("Hello, World! 42") == "hello-world-42"


def test_slug_is_cut_between_words():
    assert slug("one two three", limit=8) == "one-two"


def test_slug_at_the_limit():
    assert slug("one two", limit=7) == "one-two"


def test_slug_of_a_long_word():
    assert slug("extraordinary", limit=5) == "extra"


def test_slug_has_a_limit_of_forty():
    assert slug(" ".join(["abcd"] * 20)) == "-".join(["abcd"] * 8)


def test_slug_of_forty_characters_is_whole():
    assert slug("a" * 40) == "a" * 40


def test_slug_without_letters():
    assert slug("?!") == ""
