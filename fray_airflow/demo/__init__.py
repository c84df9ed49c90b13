"""The main job, shown: a training pipeline runs on Iris from real Airflow, and the terminal shows what happens."""
