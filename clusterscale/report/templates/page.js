(function () {
  "use strict";

  function draw(box) {
    if (box.dataset.drawn) return;
    box.dataset.drawn = "begun";
    var item = JSON.parse(document.getElementById(box.dataset.figure + "-data").textContent);
    Bokeh.embed.embed_item(item, box).then(function () { box.dataset.drawn = "done"; });
  }

  function drawIn(root) {
    root.querySelectorAll("[data-figure]").forEach(function (box) {
      // a figure in a closed fold has no width yet; it is drawn when the fold opens
      if (!box.closest("details:not([open])")) draw(box);
    });
  }

  document.querySelectorAll("details").forEach(function (fold) {
    fold.addEventListener("toggle", function () { if (fold.open) drawIn(fold); });
  });
  window.addEventListener("beforeprint", function () {
    document.querySelectorAll("details").forEach(function (fold) { fold.open = true; });
    drawIn(document);
  });
  drawIn(document);
})();
