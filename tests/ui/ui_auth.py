"""Airflow's simple auth manager, but vera may not read the DAG `secret`, and uma may not see plugins."""

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager


class UiAuthManager(SimpleAuthManager):
    def is_authorized_dag(self, *, method, user, access_entity=None, details=None):
        if user.username == "vera" and details is not None and details.id == "secret":
            return False
        return super().is_authorized_dag(method=method, user=user, access_entity=access_entity, details=details)

    def is_authorized_view(self, *, access_view, user):
        return not (user.username == "uma" and access_view is AccessView.PLUGINS)
