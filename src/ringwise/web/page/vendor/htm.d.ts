declare const htm: {
  bind(h: (type: any, attributes: any, ...children: any[]) => any): (strings: TemplateStringsArray, ...values: any[]) => any;
};
export default htm;
