export default class uPlot {
  constructor(options: any, data: number[][], parent: HTMLElement);
  setData(data: number[][]): void;
  setSize(size: { width: number; height: number }): void;
  destroy(): void;
}
