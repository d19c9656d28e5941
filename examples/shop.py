"""An agent of one's own: a name, what it is good for, and a function that it may call."""

from live_gateway import LlmAgent


def count_stock(product: str) -> dict[str, str | int]:
    """Tell how many pieces of a product are in stock.

    Args:
        product: Name of the product, for example screws.
    """
    stock = {"screws": 1200, "hammers": 7}
    pieces = stock.get(product.lower(), 0)
    return {"pieces": pieces, "summary": f"There are {pieces} {product} in stock."}


agent = LlmAgent(name="shop", description="Knows what a hardware shop has in stock.", tools=[count_stock])
