"""Photograph the report that the site has built, for the page that explains it.

    python docs/screenshots.py

Needs playwright and the system's chromium, and a built site (scripts/docs).
"""

from pathlib import Path

from playwright.sync_api import sync_playwright

DOCS = Path(__file__).parent
PAGE = DOCS / "_build" / "html" / "sample_report.html"


def main():
    """Write the two pictures."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1000, "height": 900})
        page.goto(PAGE.as_uri())
        page.screenshot(path=DOCS / "_static" / "report.png")
        page.click("#worst")
        page.locator("#explorer").screenshot(path=DOCS / "_static" / "report-explorer.png")
        browser.close()


if __name__ == "__main__":
    main()
