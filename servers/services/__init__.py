"""The built-in services, one module or package each; ``servers.catalogue`` lists them."""
