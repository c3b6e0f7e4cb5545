// Light or dark: as the system has it until the reader says otherwise. Then the explorer starts.

const prefersDark = matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : prefersDark.matches;
}

const data = readData();
const explorer = data && new Explorer(data);

document.getElementById("theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  explorer?.redraw();
});
prefersDark.addEventListener("change", () => explorer?.redraw());
