namespace Whimbrel.Engines;

/// <summary>An object that is in at most one <see cref="Fifo{T}"/> at a time.</summary>
internal interface ILinked<T>
    where T : class
{
    T? Next { get; set; }
}
