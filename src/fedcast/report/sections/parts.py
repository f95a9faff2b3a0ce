"""What several sections are put together from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fedcast.report.content import Content
from fedcast.report.markup import Markup, tag
from fedcast.report.old_svg import series_class


def figure(title: str, *content: object, note: str = "", class_: str | None = None) -> Markup:
    """A card with a title, a picture and a line below it."""
    below = [tag("p", note, class_="note")] if note else []
    return tag("figure", tag("figcaption", title), *content, *below, class_=class_)


def strategy_legend(content: Content) -> Markup:
    """One button per strategy; it takes the strategy's marks out of the plots of its section and back."""
    keys = []
    for row in content.rows:
        number = content.series[row.strategy]
        swatch = tag("span", class_=f"swatch {series_class(number)}")
        keys.append(tag("button", swatch, row.strategy.name, type="button", aria_pressed="true", data_toggles=number))
    return tag("div", *keys, class_="legend", role="group", aria_label="Strategies shown")


def colour_key(entries: Iterable[tuple[str, str]]) -> Markup:
    """What colours mean; pairs of class and words."""
    keys = [tag("li", tag("span", class_=f"swatch {look}"), words) for look, words in entries]
    return tag("ul", *keys, class_="legend")


def table(titles: Sequence[str], rows: Iterable[Sequence[object]], class_: str = "numbers") -> Markup:
    """A table whose first column names the rows."""
    head = tag("tr", *(tag("th", title, scope="col") for title in titles))
    body = [tag("tr", tag("th", first, scope="row"), *(tag("td", cell) for cell in rest)) for first, *rest in rows]
    return tag("table", tag("thead", head), tag("tbody", *body), class_=class_)


def scrolled(content: Markup, says: str, tall: bool = False) -> Markup:
    """A box that scrolls by itself, also with the keyboard, so that a wide table does not make the page wide."""
    look = "scroll tall" if tall else "scroll"
    return tag("div", content, class_=look, tabindex=0, role="region", aria_label=says)
