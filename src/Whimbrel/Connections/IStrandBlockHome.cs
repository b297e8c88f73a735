namespace Whimbrel.Connections;

/// <summary>Pool to which an unreferenced block returns.</summary>
internal interface IStrandBlockHome
{
    /// <summary>Any thread.</summary>
    void Return(StrandBlock block);
}
