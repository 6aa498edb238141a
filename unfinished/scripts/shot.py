import sys
from playwright.sync_api import sync_playwright
with sync_playwright() as p:
    b=p.chromium.launch(executable_path="/usr/bin/chromium",args=["--no-sandbox"])
    for scheme in ("light","dark"):
        page=b.new_page(viewport={"width":1100,"height":900},color_scheme=scheme)
        page.goto("file://"+sys.argv[1]); page.screenshot(path=f"/tmp/k/x/shot-{scheme}.png",full_page=True)
        try:
            from axe_playwright_python.sync_playwright import Axe
            r=Axe().run(page); print(scheme,[ (v["id"],[n["html"][:90] for n in v["nodes"][:3]]) for v in r.response["violations"]])
        except ImportError as e: print(e)
    b.close()
