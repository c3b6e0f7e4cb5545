"""Past one process: a batch function on Arrow record batches, and the engines that run it on many."""
