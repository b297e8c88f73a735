using System.Text;

namespace Whimbrel.Tool;

/// <summary>A few lines at the end of a terminal that are drawn again in place, and removed at the end. Nothing is
/// drawn without a terminal. One thread at a time.</summary>
internal sealed class LiveLines(TextWriter? output, Func<int> width)
{
    private const int UsualWidth = 80;
    private const string ClearLine = "\e[K";

    private int _drawn;

    internal bool IsShown => output is not null;

    /// <summary>Number of characters in a line.</summary>
    internal int Width => width() - 1;

    /// <summary>Creates lines on stderr, if that is a terminal.</summary>
    internal static LiveLines OnTerminal() => new(Console.IsErrorRedirected ? null : Console.Error, WidthOfTerminal);

    internal void Show(params IReadOnlyList<string> lines)
    {
        if (output is null) return;
        StringBuilder text = new(Back());
        for (int i = 0; i < lines.Count; i++)
        {
            if (i > 0) text.Append('\n');
            text.Append(lines[i].Length > Width ? lines[i][..Width] : lines[i]).Append(ClearLine);
        }

        // One write, so that the lines do not flicker.
        output.Write(text.ToString());
        output.Flush();
        _drawn = lines.Count;
    }

    internal void Clear()
    {
        if (_drawn == 0) return;
        output!.Write($"{Back()}\e[J");
        output.Flush();
        _drawn = 0;
    }

    // Some terminals do not report their width.
    private static int WidthOfTerminal() => Console.WindowWidth is > 1 and int width ? width : UsualWidth;

    private string Back() => _drawn > 1 ? $"\r\e[{_drawn - 1}A" : "\r";
}
