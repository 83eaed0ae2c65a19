// The lowest contrast (WCAG 2) between the words of the page and what is behind them.
(() => {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = color;
    context.fillRect(0, 0, 1, 1);
    return context.getImageData(0, 0, 1, 1).data;
  };
  const linear = (part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  const light = (color) =>
    0.2126 * linear(color[0] / 255) + 0.7152 * linear(color[1] / 255) + 0.0722 * linear(color[2] / 255);
  const behind = (element) => {
    for (; element; element = element.parentElement) {
      const color = rgba(getComputedStyle(element).backgroundColor);
      if (color[3]) return color;
    }
    return rgba("white");
  };
  const words = "p, dd, dt, summary span, .state, .label, .mark, pre span, h1, h2, h3, th, td, footer, small, button";
  const shown = [...document.querySelectorAll(words)].filter((one) => one.textContent.trim() && one.getClientRects().length);
  const contrast = (one) => {
    const [more, less] = [light(rgba(getComputedStyle(one).color)), light(behind(one))].sort((x, y) => y - x);
    return (more + 0.05) / (less + 0.05);
  };
  return Math.min(...shown.map(contrast));
})();
