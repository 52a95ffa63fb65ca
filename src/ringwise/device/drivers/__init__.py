"""Where chips and their faults are read: DCMI, npu-smi, or a simulation."""
