"""The page about failed calls."""

from failure_table import DOCUMENT, document


def test_the_page_says_what_the_code_does():
    """It is written from the client's classification and the machine's next action."""
    assert DOCUMENT.read_text() == document()
