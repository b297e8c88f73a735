using System.Globalization;
using System.Net;
using System.Text;

namespace Whimbrel.Tool.Plot;

/// <summary>
/// Writes an SVG of lines, dots and texts. It has no outside assets, follows the reader's light or dark scheme, and
/// its bytes depend on the arguments only.
/// </summary>
internal sealed class Svg
{
    /// <summary>Number of colours.</summary>
    internal const int MostSeries = 8;

    private const string Style = """
        svg{--paper:#ffffff;--ink:#1f2328;--faint:#59636e;--grid:#d8dee4}
        .s0{--c:#0b62c4}.s1{--c:#c2410c}.s2{--c:#15803d}.s3{--c:#a21caf}
        .s4{--c:#946200}.s5{--c:#0e7490}.s6{--c:#be123c}.s7{--c:#475569}
        @media (prefers-color-scheme:dark){
        svg{--paper:#0d1117;--ink:#e6edf3;--faint:#9198a1;--grid:#30363d}
        .s0{--c:#6cb6ff}.s1{--c:#ff9b5e}.s2{--c:#57c785}.s3{--c:#e08cf0}
        .s4{--c:#e3b341}.s5{--c:#4fc3dc}.s6{--c:#ff8095}.s7{--c:#a8b3c2}}
        text{font:13px system-ui,sans-serif;fill:var(--ink)}
        .title{font-weight:600;font-size:15px}.faint{fill:var(--faint);font-size:12px}
        .paper{fill:var(--paper)}.grid{stroke:var(--grid);stroke-width:1}
        .line{stroke:var(--c);stroke-width:2;fill:none}.dot{fill:var(--c)}
        """;

    private readonly StringBuilder _body = new();
    private readonly int _width;

    internal Svg(int width, string title)
    {
        _width = width;
        Title = title;
        Text(16, 24, title, "title");
    }

    private string Title { get; }

    internal void Line(double x1, double y1, double x2, double y2, string style) => _body.Append(
        CultureInfo.InvariantCulture,
        $"<line x1=\"{N(x1)}\" y1=\"{N(y1)}\" x2=\"{N(x2)}\" y2=\"{N(y2)}\" class=\"{style}\"/>\n");

    internal void Polyline(IEnumerable<(double X, double Y)> points, int series) => _body.Append(
        CultureInfo.InvariantCulture, $"<polyline class=\"line s{series}\" points=\"").AppendJoin(' ',
            points.Select(static p => $"{N(p.X)},{N(p.Y)}")).Append("\"/>\n");

    internal void Dot(double x, double y, int series) => _body.Append(CultureInfo.InvariantCulture,
        $"<circle cx=\"{N(x)}\" cy=\"{N(y)}\" r=\"4\" class=\"dot s{series}\"/>\n");

    /// <param name="x">Left end; with another anchor the middle or right end.</param>
    /// <param name="y">Baseline.</param>
    /// <param name="text">The text.</param>
    /// <param name="style">Class, or "".</param>
    /// <param name="anchor">start, middle or end.</param>
    internal void Text(double x, double y, string text, string style = "", string anchor = "start") => _body.Append(
        CultureInfo.InvariantCulture, $"<text x=\"{N(x)}\" y=\"{N(y)}\"").Append(
            style.Length > 0 ? $" class=\"{style}\"" : "").Append(anchor == "start" ? "" : $" text-anchor=\"{anchor}\"")
        .Append('>').Append(WebUtility.HtmlEncode(text)).Append("</text>\n");

    /// <summary>Writes names with their colours, one below the other. Returns the position below them.</summary>
    internal double Legend(double y, IReadOnlyList<string> names)
    {
        for (int i = 0; i < names.Count; i++, y += 18)
        {
            Dot(22, y - 4, i);
            Text(34, y, names[i]);
        }

        return y;
    }

    internal string ToText(double height)
    {
        string end = N(Math.Ceiling(height)), name = WebUtility.HtmlEncode(Title);
        string size = $"width=\"{_width}\" height=\"{end}\"";
        return $"""
            <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_width} {end}" {size} role="img">
            <title>{name}</title>
            <style>
            {Style}
            </style>
            <rect {size} class="paper"/>
            {_body}</svg>

            """.ReplaceLineEndings("\n");
    }

    private static string N(double value)
    {
        string text = value.ToString("0.#", CultureInfo.InvariantCulture);
        return text == "-0" ? "0" : text;
    }
}
