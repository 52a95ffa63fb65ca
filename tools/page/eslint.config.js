// Run from the root of the project: make lint-page.

import js from "@eslint/js";

const BROWSER = [
  "AbortController", "Blob", "DOMException", "Element", "Event", "HashChangeEvent", "Headers", "ImageData", "ResizeObserver",
  "Response", "TextDecoderStream", "TransformStream", "URLSearchParams", "cancelAnimationFrame", "clearTimeout", "document", "fetch",
  "getComputedStyle", "history", "localStorage", "location", "matchMedia", "performance", "requestAnimationFrame",
  "sessionStorage", "setTimeout", "window",
];

export default [
  {
    files: ["src/ringwise/web/page/**/*.js"],
    ignores: ["**/vendor/**"],
    languageOptions: {
      ecmaVersion: 2022,
      sourceType: "module",
      globals: Object.fromEntries(BROWSER.map((name) => [name, "readonly"])),
    },
    rules: {
      ...js.configs.recommended.rules,
      eqeqeq: "error",
      "no-var": "error",
      "prefer-const": "error",
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-new-func": "error",
      "no-shadow": "error",
      "no-unused-vars": ["error", { argsIgnorePattern: "^_" }],
      // Text is made by `html`, which makes every sign of it visible.
      "no-restricted-properties": [
        "error",
        ...["innerHTML", "outerHTML", "insertAdjacentHTML", "dangerouslySetInnerHTML"].map((property) => ({ property })),
      ],
    },
  },
];
