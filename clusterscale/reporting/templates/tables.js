(function () {
  "use strict";

  var PAGE = 20;          // rows of a long table that are shown at a time
  var WORTH_A_FILTER = 8; // least number of rows of a table with a filter

  function make(name, attributes, text) {
    var node = document.createElement(name);
    Object.keys(attributes || {}).forEach(function (key) { node.setAttribute(key, attributes[key]); });
    if (text !== undefined) node.textContent = text;
    return node;
  }

  // exact settings of mechanisms and priors, by their title on the page
  var script = document.querySelector("script.settings");
  var settings = script ? JSON.parse(script.textContent) : {};

  function hints() {
    // longest first, as a title may be the beginning of another
    var titles = Object.keys(settings).sort(function (a, b) { return b.length - a.length; });
    document.querySelectorAll("th, td, b, dt, li, caption, summary, figcaption").forEach(function (node) {
      var told = node.title ? [node.title] : [], text = node.title || node.textContent;
      titles.forEach(function (title) {
        var parts = text.split(title);
        if (parts.length > 1) told.push(settings[title]);
        text = parts.join("\n");
      });
      if (told.length) node.title = told.join("\n");
    });
  }

  // sort key of a cell: its first number, or its text; null for a dash
  function key(text) {
    var plain = text.trim().replace(/[,\s]/g, "").replace("−", "-").replace(/^[<>]/, "");
    if (plain === "" || plain === "–") return null;
    var number = parseFloat(plain);
    return isNaN(number) ? text.trim().toLowerCase() : number;
  }

  // null is last in both directions; text is after numbers
  function compare(a, b, way) {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return way * (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }));
  }

  function each(list, act) { Array.prototype.forEach.call(list, act); }

  // turns every heading into a button; act receives the column, and 1 (ascending) or -1
  function headings(table, act) {
    var cells = table.tHead.rows[0].cells;
    each(cells, function (cell, column) {
      var button = make("button", { type: "button" });
      while (cell.firstChild) button.appendChild(cell.firstChild);
      cell.appendChild(button);
      button.addEventListener("click", function () {
        var up = cell.getAttribute("aria-sort");
        var way = up ? (up === "ascending" ? -1 : 1) : cell.classList.contains("n") ? -1 : 1;
        each(cells, function (other) { other.removeAttribute("aria-sort"); });
        cell.setAttribute("aria-sort", way > 0 ? "ascending" : "descending");
        act(column, way);
      });
    });
  }

  function controls(table) {
    var bar = make("div", { "class": "bar" }), box = table.closest(".scroll");
    var label = make("label", {}, "Filter ");
    var input = make("input", { type: "search", autocomplete: "off", spellcheck: "false" });
    input.setAttribute("aria-label", "Filter: " + table.caption.textContent.trim());
    label.appendChild(input);
    bar.appendChild(label);
    var told = make("output", { "aria-live": "polite" });
    bar.appendChild(told);
    box.parentNode.insertBefore(bar, box);
    return { bar: bar, input: input, told: told };
  }

  function matches(text, wanted) {
    return text.toLowerCase().indexOf(wanted.trim().toLowerCase()) >= 0;
  }

  function plain(table) {
    var bodies = Array.from(table.tBodies).map(function (body) {
      return { body: body, rows: Array.from(body.rows).filter(function (row) {
        return !row.querySelector(".group"); }) };
    });
    var n = bodies.reduce(function (sum, each) { return sum + each.rows.length; }, 0);
    if (n < 2) return;
    headings(table, function (column, way) {
      bodies.forEach(function (part) {
        var keyed = part.rows.map(function (row) { return [key(row.cells[column].textContent), row]; });
        keyed.sort(function (a, b) { return compare(a[0], b[0], way); });
        keyed.forEach(function (pair) { part.body.appendChild(pair[1]); });
      });
    });
    if (n < WORTH_A_FILTER) return;
    var tools = controls(table);
    tools.input.addEventListener("input", function () {
      var left = 0;
      bodies.forEach(function (part) {
        var name = part.body.querySelector(".group"), here = 0;
        part.rows.forEach(function (row) {
          var text = row.textContent + " " + (name ? name.textContent : "");
          row.hidden = !matches(text, tools.input.value);
          here += !row.hidden;
        });
        part.body.hidden = !here;
        left += here;
      });
      tools.told.textContent = tools.input.value ? left + " of " + n : "";
    });
  }

  // a table with more rows than are shown
  function long(table, data) {
    var columns = data.columns, n = columns[0].values.length;
    var order = [], sorted = Array.from({ length: n }, function (_, row) { return row; }), page = 0;

    function value(column, row) {
      var held = columns[column].values[row];
      if (held === null) return null;
      if (columns[column].words) return columns[column].words[held];
      return columns[column].digits === null ? held : held / Math.pow(10, columns[column].digits);
    }

    function text(column, row) {
      var held = value(column, row), digits = columns[column].digits;
      if (held === null) return "–";
      if (typeof held !== "number") return held;
      return digits ? held.toFixed(digits) : held.toLocaleString("en");
    }

    var tools = controls(table);
    var back = make("button", { type: "button" }, "Previous");
    var on = make("button", { type: "button" }, "Next");
    var save = make("button", { type: "button", "class": "save" }, "Download as CSV");
    [back, on, save].forEach(function (button) { tools.bar.appendChild(button); });

    function show() {
      var body = make("tbody"), last = Math.max(0, Math.ceil(order.length / PAGE) - 1);
      page = Math.min(Math.max(page, 0), last);
      order.slice(page * PAGE, (page + 1) * PAGE).forEach(function (row) {
        var line = make("tr");
        columns.forEach(function (column, i) {
          var cell = make(i ? "td" : "th", i ? {} : { scope: "row" }), told = text(i, row);
          var address = column.links && column.links[row], look = column.looks && column.looks[told];
          if (address) cell.appendChild(make("a", { href: address }, told));
          else if (look) cell.appendChild(make("span", { "class": look }, told));
          else cell.textContent = told;
          if (column.digits !== null) cell.className = "n";
          line.appendChild(cell);
        });
        body.appendChild(line);
      });
      table.replaceChild(body, table.tBodies[0]);
      var first = order.length ? page * PAGE + 1 : 0, until = Math.min((page + 1) * PAGE, order.length);
      tools.told.textContent = first.toLocaleString("en") + "–" + until.toLocaleString("en") + " of " +
        order.length.toLocaleString("en") + (order.length < n ? " found" : "");
      back.disabled = page === 0;
      on.disabled = page === last;
    }

    function choose() {
      var wanted = tools.input.value;
      order = !wanted ? sorted : sorted.filter(function (row) {
        return matches(columns.map(function (_, i) { return text(i, row); }).join("\n"), wanted);
      });
      page = 0;
      show();
    }

    headings(table, function (column, way) {
      var keys = sorted.map(function (row) {
        var held = value(column, row);
        return typeof held === "string" ? held.toLowerCase() : held;
      });
      var places = keys.map(function (_, i) { return i; });
      places.sort(function (a, b) { return compare(keys[a], keys[b], way); });
      sorted = places.map(function (place) { return sorted[place]; });
      choose();
    });
    tools.input.addEventListener("input", choose);
    back.addEventListener("click", function () { page -= 1; show(); });
    on.addEventListener("click", function () { page += 1; show(); });
    save.addEventListener("click", function () {
      var lines = [columns.map(function (column) {
        return quoted(settings[column.name] || column.name);
      }).join(",")];
      order.forEach(function (row) {
        lines.push(columns.map(function (_, i) { return quoted(value(i, row)); }).join(","));
      });
      var blob = new Blob([lines.join("\r\n") + "\r\n"], { type: "text/csv" });
      var link = make("a", { href: URL.createObjectURL(blob), download: data.file });
      link.click();
      setTimeout(function () { URL.revokeObjectURL(link.href); }, 1000);
    });
    choose();
  }

  // a spreadsheet must not interpret text as a formula
  function quoted(value) {
    if (value === null) return "";
    if (typeof value === "number") return String(value);
    return '"' + (/^[=+@\t-]/.test(value) ? "'" : "") + value.replace(/"/g, '""') + '"';
  }

  document.querySelectorAll("table.sortable").forEach(function (table) {
    var held = table.closest(".scroll").nextElementSibling;
    if (held && held.matches("script.rows")) long(table, JSON.parse(held.textContent));
    else plain(table);
  });
  hints();
})();
