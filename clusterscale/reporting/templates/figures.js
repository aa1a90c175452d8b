(function () {
  "use strict";

  // every figure counts its models from 1; on the page they must be unique
  function rename(node, prefix) {
    if (Array.isArray(node)) { node.forEach(function (part) { rename(part, prefix); }); return; }
    if (node === null || typeof node !== "object") return;
    Object.keys(node).forEach(function (key) {
      if ((key === "id" || key === "root_id") && typeof node[key] === "string") {
        node[key] = prefix + node[key];
      } else rename(node[key], prefix);
    });
  }

  function draw(box) {
    if (box.dataset.drawn) return;
    box.dataset.drawn = "begun";
    var item = JSON.parse(box.parentNode.querySelector("script").textContent);
    rename(item, "f" + boxes.indexOf(box) + "-");
    Bokeh.embed.embed_item(item, box).then(function () { box.dataset.drawn = "done"; });
  }

  function drawIn(root) {
    root.querySelectorAll("[data-figure]").forEach(function (box) {
      // a figure in a closed fold has no width; it is drawn when the fold opens
      if (!box.closest("details:not([open])")) draw(box);
    });
  }

  var boxes = Array.from(document.querySelectorAll("[data-figure]"));
  document.querySelectorAll("details").forEach(function (fold) {
    fold.addEventListener("toggle", function () { if (fold.open) drawIn(fold); });
  });
  window.addEventListener("beforeprint", function () {
    document.querySelectorAll("details").forEach(function (fold) { fold.open = true; });
    drawIn(document);
  });
  drawIn(document);
})();
