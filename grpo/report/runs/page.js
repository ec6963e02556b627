const drawn = JSON.parse(document.getElementById("specifications").textContent);
const options = { actions: false, renderer: "svg", tooltip: { disableDefaultStyle: false } };
drawn.forEach((specification, index) => {
  vegaEmbed(document.getElementById(`graph-${index}`), specification, options);
});
