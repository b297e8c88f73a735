namespace Whimbrel;

/// <summary>Collects every mistake in a set of options, so that all are reported together.</summary>
internal sealed class OptionErrors(string what)
{
    private readonly List<string> _mistakes = [];

    internal void Range(string name, long value, long least, long most)
    {
        if (value < least || value > most) _mistakes.Add($"{name} = {value}, allowed {least} to {most}");
    }

    internal void Range(string name, TimeSpan value, TimeSpan least, TimeSpan most)
    {
        if (value < least || value > most) _mistakes.Add($"{name} = {value}, allowed {least} to {most}");
    }

    /// <summary>A range of an option that may also be zero, its default.</summary>
    internal void RangeOrZero(string name, long value, long least, long most)
    {
        if (value != 0 && (value < least || value > most))
            _mistakes.Add($"{name} = {value}, allowed {least} to {most}, or zero, the default");
    }

    /// <summary>A range of an option that may also be zero, its default.</summary>
    internal void RangeOrZero(string name, TimeSpan value, TimeSpan least, TimeSpan most)
    {
        if (value != TimeSpan.Zero && (value < least || value > most))
            _mistakes.Add($"{name} = {value}, allowed {least} to {most}, or zero, the default");
    }

    /// <remarks>Not generic, because every start would compile it for each kind of option.</remarks>
    internal void Defined(string name, Enum value)
    {
        if (!Enum.IsDefined(value.GetType(), value))
            _mistakes.Add($"{name} = {value}, allowed {string.Join(", ", Enum.GetNames(value.GetType()))}");
    }

    /// <summary>Adds a mistake. A trailing full stop, as in texts of the system, is removed.</summary>
    internal void Add(string mistake) => _mistakes.Add(mistake.TrimEnd('.'));

    internal IReadOnlyList<string> Mistakes => _mistakes;

    internal void ThrowIfAny()
    {
        if (_mistakes.Count > 0)
            throw new ArgumentException($"{what} has {_mistakes.Count} "
                + $"{(_mistakes.Count == 1 ? "mistake" : "mistakes")}: {string.Join("; ", _mistakes)}.");
    }
}
