namespace Whimbrel.Tidy;

/// One violation of a rule. The line is 1-based; 0 means the whole file.
internal sealed record Finding(string Path, int Line, string What)
{
    public override string ToString() => $"{Path}:{Line}: {What}";
}
