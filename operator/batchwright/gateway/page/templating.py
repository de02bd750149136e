"""Templates, and what all of them may use. Everything that is put into one is escaped."""

from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from batchwright.gateway.page import words
from batchwright.gateway.page.assets import Assets

UI: Final = "/ui"
"""Where the page lies, under the root path."""


class Templates:
    """Renders the package's templates; links begin with the root path."""

    def __init__(self, assets: Assets, root_path: str) -> None:
        self._root = root_path
        self._base = f"{root_path}{UI}"
        self._environment = Environment(
            loader=PackageLoader(__package__ or "", "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        filters = (words.count, words.size, words.duration, words.ago, words.instant, words.machine, words.rate)
        self._environment.filters.update({function.__name__: function for function in filters})
        self._environment.globals.update(
            link=self.link, asset=lambda name: self.link(f"/static/{assets.name(name)}"), root_path=root_path
        )

    def link(self, path: str) -> str:
        """The path of one of our pages, as a browser asks for it; `/` is the list."""
        return f"{self._base}{path}"

    def from_root(self, path: str) -> str:
        """A request's path as the browser sees it, whether or not an ingress has taken the root path away."""
        return path if path.startswith(f"{self._base}/") else f"{self._root}{path}"

    def is_ours(self, path: str) -> bool:
        """Whether a path leads to one of our pages, and not to another host."""
        return path.startswith(f"{self._base}/") and "\\" not in path and "//" not in path and path.isprintable()

    def render(self, template: str, **values: Any) -> str:
        """A template's text. Raises jinja2.UndefinedError where it asks for what isn't given."""
        return self._environment.get_template(template).render(**values)
