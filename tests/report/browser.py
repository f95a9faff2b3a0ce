"""A real browser for tests: Debian's chromium, without a window, driven by selenium."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.webdriver import ActionChains
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
# A browser of a container has no sandbox and little shared memory.
_SWITCHES = (
    "--headless=new",
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--force-device-scale-factor=1",
)


class Browser:
    """The few things that tests do."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, page: Path, *, width: int = 1280, scheme: str = "light", touch: bool = False) -> None:
        """Show a page as a screen of that width and a system of that colour scheme would."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": touch}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": touch})
        self.prefer(scheme)
        for kind in ("browser", "performance"):
            self.driver.get_log(kind)  # what was said before
        self.driver.get(page.as_uri())
        self.driver.execute_async_script(
            "document.readyState === 'complete' ? arguments[0]() : addEventListener('load', () => arguments[0]())"
        )

    def prefer(self, scheme: str) -> None:
        """Emulate preferences of the system; without motion tests need not wait."""
        features = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
        listed = [{"name": name, "value": value} for name, value in features.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": listed})

    def ask(self, script: str, *values: object) -> object:
        """Return the result of a script; its values are `arguments`."""
        return self.driver.execute_script(f"return {script}", *values)

    def find(self, selector: str) -> WebElement:
        """The first element that is shown."""
        found = self.driver.execute_script(
            "return [...document.querySelectorAll(arguments[0])].find((one) => one.getClientRects().length)", selector
        )
        assert found is not None, selector
        return found

    def all(self, selector: str) -> list[WebElement]:
        """All elements, shown or not."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def show(self, element: WebElement) -> WebElement:
        """Scroll to the middle of the screen, away from what sticks to its top."""
        self.driver.execute_async_script(
            """arguments[0].scrollIntoView({block: "center"});
            requestAnimationFrame(() => requestAnimationFrame(arguments[1]));""",  # until it is told that it scrolled
            element,
        )
        return element

    def click(self, selector: str) -> None:
        """As with a mouse."""
        self.show(self.find(selector)).click()

    def hover(self, element: WebElement, right: float = 0, down: float = 0) -> str:
        """Point at an element, so far from its middle, and say what the tip says."""
        self.show(element)
        ActionChains(self.driver).move_to_element_with_offset(element, right, down).perform()
        return self.tip()

    def tip(self) -> str:
        """Return the text of the tip; empty if there is none."""
        script = "(({hidden, innerText}) => hidden ? '' : innerText)(document.getElementById('tip'))"
        return str(self.ask(script)).replace("\u00a0", " ")

    def colour_of(self, selector: str, quality: str) -> str:
        """A colour as it is on the screen."""
        return str(self.ask("getComputedStyle(arguments[0])[arguments[1]]", self.find(selector), quality))

    def complaints(self) -> list[dict[str, object]]:
        """All that the console was told."""
        return self.driver.get_log("browser")

    def requests(self) -> list[str]:
        """Addresses that were asked for since the page was opened."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"]


@contextmanager
def started() -> Iterator[Browser]:
    """A browser, until the end of the block."""
    options = Options()
    options.binary_location = str(CHROMIUM)
    for switch in _SWITCHES:
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
