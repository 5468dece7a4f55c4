"use strict";
// Draws the charts of a page, and says when the connection is lost. Data is in the page; nothing else is loaded.
(function () {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const drawn = [];

  function series(given, index) {
    const colours = ["--accent", "--second", "--third", "--soft"];
    const stroke = colour(given.band ? (index === 2 ? "--accent" : "--band") : colours[index % colours.length]);
    return { label: given.names[index], stroke, width: given.band && index !== 2 ? 1 : 2, points: { size: 7 }, spanGaps: true };
  }

  function powers(u, axis, low, high) {
    const first = Math.ceil(Math.log10(low)), last = Math.floor(Math.log10(high));
    const step = Math.max(1, Math.ceil((last - first) / 6));
    const found = [];
    for (let one = first; one <= last; one += step) found.push(10 ** one);
    return found;
  }

  function draw(box) {
    const given = JSON.parse(box.dataset.chart);
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    const whole = given.xlabel === "phase";
    const options = {
      width: Math.max(240, box.clientWidth),
      height: 240,
      cursor: { y: false },
      legend: { live: false },
      scales: { x: { time: false, range: whole ? (u, low, high) => [low - 0.4, high + 0.4] : undefined }, y: { distr: given.log ? 3 : 1 } },
      axes: [
        { ...axis, label: given.xlabel, labelSize: 22, size: 28, incrs: whole ? [1, 2, 5, 10, 20] : undefined },
        { ...axis, size: 64, splits: given.log ? powers : undefined, values: given.log ? (u, ticks) => ticks.map((one) => (one === null ? "" : one.toExponential(0))) : undefined },
      ],
      series: [{ label: given.xlabel }, ...given.names.map((_, index) => series(given, index))],
      bands: given.band ? [{ series: [2, 1], fill: colour("--tint") }] : [],
    };
    box.replaceChildren();
    drawn.push([box, new uPlot(options, [given.x, ...given.series], box)]);
  }

  function drawAll() {
    if (typeof uPlot === "undefined") return;
    while (drawn.length) drawn.pop()[1].destroy();
    document.querySelectorAll("[data-chart]").forEach(draw);
  }

  function lost(text) {
    const box = document.getElementById("lost");
    if (box) { box.textContent = text; box.hidden = !text; }
  }

  document.addEventListener("DOMContentLoaded", drawAll);
  document.addEventListener("htmx:afterSettle", drawAll);
  document.addEventListener("htmx:sendError", () => lost("The coordinator cannot be reached. This page shows its last state."));
  document.addEventListener("htmx:responseError", (event) => lost(event.detail.xhr.status === 401
    ? "The session has ended. Open the link again." : "The coordinator replied with an error. This page shows its last state."));
  document.addEventListener("htmx:afterRequest", (event) => { if (event.detail.successful) lost(""); });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  let waiting = 0;
  window.addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(drawAll, 200); });
})();
