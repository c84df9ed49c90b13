"""Tools for testing DAGs that use this provider."""
