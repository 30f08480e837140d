/** What we use of the package, which brings no types. */
declare module 'sax' {
  type Tag = { readonly name: string; readonly attributes: { readonly [name: string]: string } };
  type Parser = {
    onopentag: (tag: Tag) => void;
    onclosetag: (name: string) => void;
    onerror: (error: Error) => void;
    write(text: string): Parser;
    close(): Parser;
  };
  const sax: { parser(strict: true): Parser };
  // biome-ignore lint/style/noDefaultExport: the package is CommonJS, and that is how it is imported.
  export default sax;
}
