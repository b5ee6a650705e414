"""Problems that are solved with the help of a sandboxed Python tool."""
