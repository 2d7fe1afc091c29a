"""Live notebooks and documents, edited together with people in JupyterLab and run in real kernels."""
