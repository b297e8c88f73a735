namespace Whimbrel.Tool.Plot;

/// <summary>A file cannot be plotted. The message has the reason and the cure.</summary>
internal sealed class PlotException(string message) : Exception(message);
