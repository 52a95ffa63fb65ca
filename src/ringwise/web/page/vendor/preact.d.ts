export function h(type: any, attributes: any, ...children: any[]): any;
export function render(node: any, parent: Element): void;
