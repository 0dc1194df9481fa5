"""The interactive API page, whose scripts come from an installed package: it works offline."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.staticfiles import StaticFiles

_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Ccircle cx='8' cy='8' r='5' fill='%23e8a33d'/%3E%3C/svg%3E"
)


def install(app: FastAPI) -> None:
    app.mount("/static", StaticFiles(directory=_assets()), name="static")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return get_swagger_ui_html(
            openapi_url="openapi.json",
            title=f"{app.title}: API",
            swagger_js_url="static/swagger-ui-bundle.js",
            swagger_css_url="static/swagger-ui.css",
            swagger_favicon_url=_ICON,
            swagger_ui_parameters={"tryItOutEnabled": True, "validatorUrl": None},
        )

    @app.get("/", include_in_schema=False)
    async def index() -> RedirectResponse:
        return RedirectResponse("docs")


def _assets() -> Path:
    # Only its files are wanted; importing the package would import a second application class.
    spec = find_spec("fastapi_offline")
    assert spec is not None and spec.origin is not None, "a dependency of this package"
    return Path(spec.origin).parent / "static"
