namespace Whimbrel.Tool.Top;

/// <summary>Why there is nothing to show, in a sentence for the user.</summary>
internal sealed class TopException(string message) : Exception(message);
