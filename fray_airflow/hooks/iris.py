"""IrisHook: the client of an Airflow connection."""

from __future__ import annotations

import asyncio
import os
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook
from airflow.sdk.log import mask_secret

from fray_airflow.errors import FrayError
from fray_airflow.exceptions import for_airflow
from fray_airflow.hooks.connection import ConnectionSettings, parse_connection

if TYPE_CHECKING:
    from fray_airflow.iris import AsyncIrisClient, IrisClient

TEST_SECONDS = 5


class IrisHook(BaseHook):
    """Makes clients from the connection `iris_conn_id`. Nothing is read or connected before the first call."""

    conn_name_attr = "iris_conn_id"
    default_conn_name = "iris_default"
    conn_type = "iris"
    hook_name = "Iris"

    def __init__(self, iris_conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.iris_conn_id = iris_conn_id
        self._client: tuple[int, IrisClient] | None = None

    def settings(self) -> ConnectionSettings:
        """What the connection says. Raises AirflowNotFoundException, or InvalidSpecError for a faulty one."""
        return self._parse(self.get_connection(self.iris_conn_id))

    async def asettings(self) -> ConnectionSettings:
        """The same on a triggerer, whose event loop must not be blocked."""
        return self._parse(await self.aget_connection(self.iris_conn_id))

    def get_conn(self) -> IrisClient:
        """The client, made once per process: a channel does not survive a fork."""
        from fray_airflow.iris import IrisClient

        if self._client is None or self._client[0] != os.getpid():
            settings = self.settings()
            self._client = os.getpid(), IrisClient(settings.host, **settings.arguments)
        return self._client[1]

    async def get_async_conn(self) -> AsyncIrisClient:
        """A new client for the running event loop; the caller closes it."""
        # In a thread: it takes a fifth of a second the first time, and the loop is all triggers' loop.
        await asyncio.to_thread(import_module, "fray_airflow.iris")
        from fray_airflow.iris import AsyncIrisClient

        settings = await self.asettings()
        return AsyncIrisClient(settings.host, **settings.arguments)

    def test_connection(self) -> tuple[bool, str]:
        """Whether the controller answers, and as whom: what the connection form's Test button shows."""
        from fray_airflow.iris import IrisClient

        try:
            settings = self.settings()
            # The button runs in the API server, which must not wait for a controller that hangs.
            arguments = {**settings.arguments, "timeout": TEST_SECONDS}
            with IrisClient(settings.host, **arguments) as client:
                started = time.perf_counter()
                me = client.whoami()
                milliseconds = (time.perf_counter() - started) * 1000
                where = f"{client.options.target.authority} over {client.transport()}"
        except FrayError as error:
            return False, str(error)
        return True, f"Iris at {where} answers in {milliseconds:.0f} ms; we are {me.user_id} ({me.role or 'no role'})"

    def _parse(self, conn: Any) -> ConnectionSettings:
        try:
            settings = parse_connection(conn)
        except FrayError as error:
            raise for_airflow(error) from None
        for secret in settings.secrets:
            mask_secret(secret)
        return settings
