"""Types and graphs: values, nodes, blocks, their canonical text and their verifier."""
