"""A recalibrated regressor inside scikit-learn: in a pipeline, with the penalty of the model inside it searched for."""

from diamonds import METRICS, split
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import nearcal as nc


def main():
    """Search, fit, print."""
    (X, y), _, (X_new, y_new) = split(__doc__, rows=4_000)  # cross-fitting needs no calibration set
    model = make_pipeline(PolynomialFeatures(2), StandardScaler(), Ridge())
    quick = {"effort": "quick"}  # a search fits it again and again
    pipeline = make_pipeline(StandardScaler(), nc.RecalibratedRegressor(model, tuning=quick, random_state=0))
    search = GridSearchCV(pipeline, {"recalibratedregressor__estimator__ridge__alpha": [0.1, 10.0]}, cv=2).fit(X, y)
    scaler, recalibrated = search.best_estimator_
    Z = scaler.transform(X_new)
    dists = {"before": recalibrated.calibrated_.base(Z), "after": recalibrated.predict_dist(Z)}
    print(f"Ridge of squares: prices of {len(y_new):,} diamonds in thousands of dollars, 95% intervals")
    print(f"The best penalty is {search.best_params_}. {recalibrated.calibrated_.reason}")
    print(nc.evaluate(dists, y_new, space=X_new, metrics=METRICS))
    lower, upper = recalibrated.predict_interval(Z[:1], coverage=0.9)
    print(f"The first costs {y_new[0]:.2f}; with 90% probability between {lower[0]:.2f} and {upper[0]:.2f}.")


if __name__ == "__main__":
    main()
