// Light, dark, or as the system says.

const KEY = "ringwise-theme";
export const THEMES = /** @type {Record<string, string>} */ ({ system: "As the system", light: "Light", dark: "Dark" });

export function currentTheme() {
  const theme = localStorage.getItem(KEY) ?? "system";
  return theme in THEMES ? theme : "system";
}

const system = matchMedia("(prefers-color-scheme: dark)");
system.addEventListener("change", show);

/** @param {string} theme */
export function setTheme(theme) {
  localStorage.setItem(KEY, theme);
  show();
}

/** The style sheet knows two themes; which one is meant is decided here. */
function show() {
  const theme = currentTheme();
  document.documentElement.dataset.theme = theme === "system" ? (system.matches ? "dark" : "light") : theme;
  window.dispatchEvent(new Event("themechange"));
}

/**
 * @param {() => void} listener called when the colors become others
 * @returns {() => void} ends it
 */
export function onThemeChange(listener) {
  window.addEventListener("themechange", listener);
  return () => window.removeEventListener("themechange", listener);
}
