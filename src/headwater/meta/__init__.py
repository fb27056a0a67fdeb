"""The metadata store: one interface (``store``), its keys (``keys``), and the backends.

``urls.open_store`` picks a backend by URL; nothing outside a backend's module imports that
backend's client.
"""
