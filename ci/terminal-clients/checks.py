"""Checks of the terminal tests."""


def holds(is_so, words):
    """Prints a line about a true condition. Fails if the condition is false."""
    if not is_so:
        raise AssertionError(f"does not hold: {words}")
    print(f"  ok  {words}")
