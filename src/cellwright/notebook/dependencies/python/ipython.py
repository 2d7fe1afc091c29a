"""What IPython adds to Python: lines and cells of magic, the shell, and the questions with `?`."""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from cellwright.notebook.dependencies.model import ANY_FILE, ENVIRONMENT, FILES, FOLDER, NONE, Names, file_named, listed

HISTORY = re.compile(r"_{1,3}|_i{1,3}|_i?\d+|_[iod]h|In|Out")
"""Names by which IPython gives back what other cells put in and out."""
_RUNS_PYTHON = frozenset(
    {"time", "prun", "memit", "mprun", "lprun", "capture", "heat", "snakeviz", "pyinstrument", "debug"}
)
_RUNS_APART = frozenset({"timeit"})
"""What runs Python whose variables do not stay."""
_OTHER_LANGUAGES = listed(
    """
    bash sh script html HTML javascript js latex markdown svg SVG perl ruby python2 pypy cmd system sx !
    """
)
_HARMLESS = listed(
    """
    matplotlib config load_ext reload_ext unload_ext autoreload pip conda mamba uv psearch ls pwd lsmagic magic
    quickref colors xmode pprint precision pdb doctest_mode history hist rerun_help dirs autocall automagic
    alias_magic autosave watermark tensorboard logstart logstop page man more less cat edit ed load nbagg gui subplots
    version_information who_ls codeowner tb notebook connect_info qtconsole black nb_black lab_black code_wrap
    killbgscripts unalias alias bookmark
    """
)
_SHELLS = frozenset({"bash", "sh", "system", "sx", "!", "cmd"})
_SHOWN = frozenset({"html", "HTML", "javascript", "js", "latex", "markdown", "svg", "SVG"})
_TELLS_OF = frozenset({"pinfo", "pinfo2", "pdoc", "psource", "pdef", "pfile"})
_CHANGES = {
    **dict.fromkeys(("cd", "pushd", "popd"), frozenset({FOLDER})),
    **dict.fromkeys(("env", "set_env"), frozenset({ENVIRONMENT})),
    **dict.fromkeys(("save", "notebook"), frozenset({FILES, ANY_FILE})),
}
_OPTION = re.compile(r"--(?:out|err|proc)[= ]\s*([^\W\d]\w*)")
_GIVEN_OUT = re.compile(r"(?:^|\s)-o[= ]?\s*([^\W\d]\w*(?:,[^\W\d]\w*)*)")
_GIVEN_IN = re.compile(r"(?:^|\s)-i[= ]?\s*([^\W\d]\w*(?:,[^\W\d]\w*)*)")
_IN_BRACES = re.compile(r"\{([^{}]+)\}")
_AFTER_DOLLAR = re.compile(r"(?<!\$)\$([^\W\d]\w*)")
_WRITES_NOTHING = re.compile(
    r"\s*(?:pip3?|conda|mamba|uv|apt|apt-get|sudo apt(?:-get)?|echo|ls|cat|head|tail|wc|pwd|nvidia-smi|which|whoami|date|uname|"
    r"free|df|du|lscpu|grep|find|file|python3? (?:--version|-V|-m pip)|jupyter|nproc|env|printenv|sleep|true|exit)\b[^>|;&]*"
)
_PLAIN_NAME = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class Magic:
    """What a line or a cell of magic does."""

    code: str = ""
    """Python that it runs."""
    apart: bool = False
    """Whether the variables of this Python do not stay."""
    uses: Names = NONE
    defines: Names = NONE
    changes: Names = NONE
    opaque: str = ""


def transformed(source: str) -> str:
    """The Python that IPython makes of a cell. SyntaxError if it can make none."""
    try:
        return _transformation()(source)
    except (ValueError, IndexError, AttributeError, KeyError, TypeError, AssertionError) as error:
        raise SyntaxError(str(error)) from error


@cache
def _transformation() -> Callable[[str], str]:
    # Slow to import, and needed only for what is no Python by itself.
    from IPython.core.inputtransformer2 import TransformerManager  # noqa: PLC0415

    return TransformerManager().transform_cell


def load() -> None:
    """Import what `transformed` needs, while files may still be opened."""
    _transformation()("%matplotlib inline\n")


def cell_magic(name: str, line: str, body: str) -> Magic:
    """What `%%name line` does with the cell below it."""
    if name in _RUNS_APART:
        return Magic(code=f"{_without_options(line)}\n{body}", apart=True)
    if name == "capture":
        words = [word for word in line.split() if not word.startswith("-")]
        return Magic(code=body, defines=frozenset(word for word in words[:1] if _PLAIN_NAME.fullmatch(word)))
    if name in _RUNS_PYTHON:
        return Magic(code=f"{_without_options(line)}\n{body}" if name == "time" and line.strip() else body)
    if name in _SHOWN:
        return Magic()
    return _of_other_language(name, line, body)


def _of_other_language(name: str, line: str, body: str) -> Magic:
    given = names_in_shell(line)
    match name:
        case "writefile" | "file":
            return _writes(line, given, append="-a" in line.split())
        case "R":
            return _of_r(given | _listed(_GIVEN_IN, line), _listed(_GIVEN_OUT, line))
        case "sql":
            target = re.match(r"\s*([^\W\d]\w*)\s*<<", line) or re.match(r"\s*(?:\S+\s+)?([^\W\d]\w*)\s*<<", body)
            defines = NONE if target is None else frozenset({target[1]})
            return Magic(uses=given | names_in_shell(body), defines=defines, opaque="%%sql")
        case _ if name in _OTHER_LANGUAGES:
            harmless = name in _SHELLS and _harmless_script(body)
            expanded = names_in_shell(body) if name in {"sx", "system", "!"} else NONE
            changes = NONE if harmless else frozenset({FILES, ANY_FILE})
            return Magic(uses=given | expanded, defines=frozenset(_OPTION.findall(line)), changes=changes)
        case _:
            return Magic(opaque=f"%%{name}")


def line_magic(name: str, line: str) -> Magic:
    """What `%name line` does."""
    if name in _RUNS_APART:
        return Magic(code=_without_options(line), apart=True)
    if name in _RUNS_PYTHON - {"capture"}:
        return Magic(code=_without_options(line))
    given = names_in_shell(line)
    if name in _TELLS_OF:
        return Magic(uses=given | frozenset(_PLAIN_NAME.findall(line)[:1]))
    if name in _CHANGES:
        return Magic(uses=given, changes=_CHANGES[name] if line.strip() or name != "env" else NONE)
    return Magic(uses=given) if name in _HARMLESS else _with_names(name, line, given)


def _with_names(name: str, line: str, given: Names) -> Magic:
    """Magic whose line names variables."""
    listed_names = frozenset(line.split())
    match name:
        case "store":
            return _store(line.split(), given)
        case "sx" | "system" | "sc":
            return shell(line)
        case "R" | "Rpush" | "Rpull" | "Rget":
            pushed = listed_names if name == "Rpush" else _listed(_GIVEN_IN, line)
            return _of_r(given | pushed, listed_names if name == "Rpull" else _listed(_GIVEN_OUT, line))
        case "xdel":
            return Magic(defines=listed_names)
        case _:
            return Magic(uses=given, opaque=f"%{name}")


def _of_r(uses: Names, defines: Names) -> Magic:
    """R has variables of its own, which are not looked at one by one."""
    return Magic(uses=uses, defines=defines, changes=frozenset({"<R>"}))


def shell(command: str) -> Magic:
    """A command of the shell. Which files it writes is not known."""
    changed = NONE if _harmless_script(command) else frozenset({FILES, ANY_FILE})
    return Magic(uses=names_in_shell(command), changes=changed)


def names_in_shell(text: str) -> Names:
    """The names whose values IPython puts into a command: `$name` and `{expression}`."""
    return frozenset(_names_in_braces(text)) | frozenset(_AFTER_DOLLAR.findall(text))


def _names_in_braces(text: str) -> Iterator[str]:
    for expression in _IN_BRACES.findall(text):
        try:
            tree = ast.parse(expression.strip(), mode="eval")
        except (SyntaxError, ValueError):
            tree = None
        # Of `{value:.2f}` only what stands before the colon is an expression.
        if tree is None:
            yield from _PLAIN_NAME.findall(expression.partition(":")[0].strip())[:1]
        else:
            yield from (node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


def _harmless_script(text: str) -> bool:
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return all(_WRITES_NOTHING.fullmatch(line) for line in lines)


def _listed(pattern: re.Pattern[str], line: str) -> Names:
    return frozenset(name for names in pattern.findall(line) for name in names.split(","))


def _writes(line: str, given: Names, *, append: bool) -> Magic:
    words = [word for word in line.split() if not word.startswith("-")]
    if not words or given:
        return Magic(uses=given, changes=frozenset({FILES, ANY_FILE}))
    name = file_named(words[0].strip("'\"").removeprefix("./"))
    if append:
        return Magic(changes=frozenset({name, ANY_FILE}))
    return Magic(defines=frozenset({name}), changes=frozenset({ANY_FILE}))


def _store(words: list[str], given: Names) -> Magic:
    names = frozenset(word for word in words if _PLAIN_NAME.fullmatch(word))
    if "-r" not in words:
        return Magic(uses=given | names)
    return Magic(defines=names, opaque="" if names else "%store -r")


def _without_options(line: str) -> str:
    """The statement of a line such as `-n 10 -o f(x)`."""
    rest = line.strip()
    while match := re.match(r"(?:-[nrpslT]\s*\S+|--?[a-zA-Z-]+)(?:\s+|$)", rest):
        rest = rest[match.end() :]
    return rest
