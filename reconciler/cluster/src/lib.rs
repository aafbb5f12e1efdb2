//! Kubernetes: what is seen of clusters, the ledger kept there, and the executor that carries out plans.
