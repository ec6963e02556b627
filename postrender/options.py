"""Read a command's options; getopt does, because argparse takes a tenth of the time of a whole `grpo lint`."""

from __future__ import annotations

import sys

from postrender.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType


def _load_getopt() -> ModuleType:
    """Load getopt without the translations of its messages, which are not shown here and take as long as a lint."""
    loaded = sys.modules.get("gettext")
    # getopt takes it that there may be none.
    sys.modules["gettext"] = None  # type: ignore[assignment]
    try:
        import getopt
    finally:
        del sys.modules["gettext"]
        if loaded is not None:
            sys.modules["gettext"] = loaded
    return getopt


class Options:
    """Hold what a command line says: every option may be given more than once, `words` are the rest in order."""

    def __init__(
        self, command: str, argv: Sequence[str], *, with_value: Sequence[str], flags: Sequence[str] = ()
    ) -> None:
        """Read `argv` with `-f`, `-h` and the named long options; raise UsageError for anything else."""
        self.command = f"grpo {command}"
        self._known = ("values", *with_value, *flags, "help")
        valued = [f"{name}=" for name in ("values", *with_value)]
        self._refuse_abbreviations(argv)
        getopt = _load_getopt()
        try:
            given, self.words = getopt.gnu_getopt([*argv], "f:h", [*valued, *flags, "help"])
        except getopt.GetoptError as error:
            option = f"{'-' if len(error.opt) == 1 else '--'}{error.opt}"
            reason = "needs a value" if "requires" in error.msg else "takes no value"
            raise self.wrong(f"{option} {reason if error.opt in ('f', *self._known) else 'is no option'}") from error
        short = {"-f": "values", "-h": "help"}
        self._given = [(short.get(name, name[2:]), value) for name, value in given]

    def _refuse_abbreviations(self, argv: Sequence[str]) -> None:
        """Take full names only: an abbreviation stops to work on the day when a second option starts like it."""
        for word in argv:
            name = word[2:].partition("=")[0]
            if name == "set":
                raise UsageError(
                    f"{self.command}: there is no --set", fix="write it into a file, and give that with -f"
                )
            if word.startswith("--") and name and name not in self._known:
                raise self.wrong(f"no option is called --{name}", near=name, known=self._known, prefix="--")

    def wrong(self, message: str, *, near: str = "", known: Sequence[str] = (), prefix: str = "") -> UsageError:
        """Return the error for this command, with the nearest known word where one is near."""
        fix = f"see {self.command} --help"
        if known:
            import difflib

            close = difflib.get_close_matches(near, known, n=1)
            fix = f"did you mean {prefix}{close[0]}?" if close else fix
        return UsageError(f"{self.command}: {message}", fix=fix)

    def all(self, name: str) -> list[str]:
        """Return every value of an option, in order."""
        return [value for given, value in self._given if given == name]

    def last(self, name: str, default: str | None = None) -> str | None:
        """Return the last value of an option, or the default."""
        values = self.all(name)
        return values[-1] if values else default

    def has(self, name: str) -> bool:
        """Say whether an option is given."""
        return any(given == name for given, _ in self._given)

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """Return the last value of an option that must be one of the choices; the first is the default."""
        value = self.last(name) or choices[0]
        if value not in choices:
            raise self.wrong(f"--{name} is {value!r}, expected one of {', '.join(choices)}", near=value, known=choices)
        return value

    def words_of(self, name: str) -> list[str]:
        """Return the words of an option that takes several, by commas or by standing more than once."""
        return [word for value in self.all(name) for word in map(str.strip, value.split(","))]

    def refuse_words(self, words: Sequence[str]) -> None:
        """Raise UsageError where there is a word that no option takes."""
        if words:
            fix = f"give a values file with -f {words[0]}" if "." in words[0] else f"see {self.command} --help"
            raise UsageError(f"{self.command}: {words[0]!r} was not expected", fix=fix)

    def files(self) -> list[str]:
        """Return the values files as given; raise UsageError where there is none or one cannot be meant."""
        files = self.all("values")
        if not files and not self.has("accelerator"):
            raise UsageError(
                f"{self.command}: no values file is given",
                fix=f"{self.command} -f values/accelerators/b200.yaml -f RECIPE.yaml -f SITE.yaml",
            )
        for name in files:
            if "," in name:
                raise UsageError(f"{self.command}: {name!r} has a comma in it", fix="give each file its own -f")
        return files
