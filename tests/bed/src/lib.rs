//! Grounds for tests: real control planes with hollow nodes, and real nodes.
