"""Real servers and clients that Headwater is proven and measured against.

Each module first looks whether its thing is there, installs it where it can, and otherwise raises
``InstallError`` with one line that says what is missing. Nothing here is part of the product.
"""
