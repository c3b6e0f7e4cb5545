"""A wrong use of commands and options, and what was probably meant."""

import difflib
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from nearcal.cli._console import Mistake, did_you_mean

_ALIKE = 0.7  # of a short word, less is another word
# what options are called elsewhere, or were called here; those a command has not are not suggested
_OTHER_WORDS = {
    "neighbors": "--k",
    "n-neighbors": "--k",
    "neighbours": "--k",
    "bandwidth": "--radius",
    "weights": "--smoothing",
    "kernel": "--smoothing",
    "layer": "--space",
    "features": "--space",
    "target": "--y",
    "response": "--y",
    "label": "--y",
    "draws": "--samples",
    "dist": "--family",
    "distribution": "--family",
    "interval": "--coverage",
    "level": "--coverage",
    "alpha": "--coverage",
    "confidence": "--coverage",
    "id": "--keep",
    "columns": "--keep",
    "h": "--help",
    "v": "--version",
    "V": "--version",
}
_OTHER_COMMANDS = {
    "train": "fit",
    "calibrate": "fit",
    "recalibrate": "predict",
    "apply": "predict",
    "score": "evaluate",
    "test": "evaluate",
    "show": "inspect",
    "info": "inspect",
    "plot": "report",
    "watch": "monitor",
    "drift": "monitor",
    "export": "compile",
    "onnx": "compile",
    "distil": "compile",
    "warmup": "warm-up",
}
_REMARKS = {
    "adjustment": "--adjustment linear is called --linear now, and --adjustment none --no-linear",
    "quantile-rule": "a row's scores are read by the predictive rule; nearcal.tune in Python takes others",
    "model": "the model is the first argument, without an option",
    "seed": "nothing is drawn at random: the same files give the same results",
    "threads": "all processors are used; taskset and the like keep some free",
    "jobs": "all processors are used; taskset and the like keep some free",
}
_USES = {
    "fit": "nearcal fit CALIBRATION -o MODEL",
    "predict": "nearcal predict MODEL NEW -o OUT",
    "evaluate": "nearcal evaluate MODEL TEST",
    "report": "nearcal report MODEL TEST -o PAGE.html",
    "monitor": "nearcal monitor MODEL STREAM",
    "inspect": "nearcal inspect MODEL",
    "compile": "nearcal compile MODEL -o OUT.onnx",
    "warm-up": "nearcal warm-up",
}


def as_misuse(error: Any, arguments: Sequence[str], commands: Iterable[str], parameters: Iterable[str]) -> Mistake:
    """Return what typer complains of as a mistake; ``parameters`` are those that ``--param`` takes."""
    message = " ".join(error.format_message().split()).rstrip(".")
    name = next((argument for argument in arguments if argument in set(commands)), "")
    if command := re.match(r"No such command '(.*?)'", message):
        return Mistake(f"there is no command {command[1]!r}", _command_meant(command[1], commands))
    if option := re.match(r"No such option:? '?(--?[\w-]*)", message):
        own = [flag for known in error.ctx.command.params for flag in (*known.opts, *known.secondary_opts)]
        return Mistake(f"there is no option {option[1]}", _option_meant(option[1], [*own, "--help"], parameters))
    if extra := re.match(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)", message):
        remedy = "several columns are written a,b, and a glob between quotes: 'x*'"
        return Mistake(f"{extra[1]} is one argument too many; {_USES.get(name, 'nearcal')} is all", remedy)
    if message.startswith("Missing argument") and name:
        return Mistake(message, f"{_USES[name]}; see nearcal {name} --help")
    if value := re.match(r"Invalid value for '(--[\w-]+)'", message):
        return Mistake(message, _value_meant(value[1], arguments) or f"see nearcal {name} --help")
    return Mistake(message, f"see nearcal {name} --help" if name else "see nearcal --help")


def _command_meant(word: str, commands: Iterable[str]) -> str:
    if word in ("help", "version"):
        return f"did you mean '--{word}'?"
    other = _OTHER_COMMANDS.get(word)
    return f"did you mean {other!r}?" if other else did_you_mean(word, commands)


def _option_meant(option: str, known: Sequence[str], parameters: Iterable[str]) -> str:
    word = option.lstrip("-")
    names = [name for name in known if name.startswith("--")]
    if word in _REMARKS and (word != "adjustment" or "--linear" in names):
        return _REMARKS[word]
    if _OTHER_WORDS.get(word) in names:
        return f"did you mean {_OTHER_WORDS[word]!r}?"
    if word in parameters and "--param" in names:
        return f"did you mean '--param {word}=COLUMN'?"
    by_word = {name.lstrip("-"): name for name in names}
    begun = [name for known_word, name in by_word.items() if word and known_word.startswith(word.lower())]
    close = begun or [by_word[one] for one in difflib.get_close_matches(word.lower(), by_word, n=1, cutoff=_ALIKE)]
    return f"did you mean {close[0]!r}?" if close else did_you_mean("", names)


def _value_meant(option: str, arguments: Sequence[str]) -> str:
    """Read what stands behind an option as a number, as people write it: 90%, or 0,9."""
    written = [argument.partition("=")[2] for argument in arguments if argument.startswith(f"{option}=")]
    written += [value for flag, value in pairwise(arguments) if flag == option]
    for text in written:
        if percent := re.fullmatch(r"(\d+(?:[.,]\d+)?)\s*%", text):
            return f"did you mean {float(percent[1].replace(',', '.')) / 100:g}?"
        if re.fullmatch(r"\d*,\d+", text):
            return f"did you mean {text.replace(',', '.')}?"
    return ""
