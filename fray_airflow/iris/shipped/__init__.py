"""Files that are sent with a job and run on the cluster: standard library only, any Python from 3.8 on."""
